import Hummingbird

/// Writes Zephr's errors, which have no schema: JSON on request, otherwise HTML.
///
/// A setting or a fault can choose JSON, HTML, plain text or an empty body.
struct ZephrErrors {
    let call: Call

    func answer(_ status: Int, _ message: String) -> Response {
        var shape = call.settings.text("error_body")
        if shape == "auto" { shape = call.acceptsJSON ? "json" : "html" }
        if call.faults.has("empty-error") { shape = "empty" }
        if call.faults.has("html-error") { shape = "html" }
        if call.faults.has("text-error") { shape = "text" }
        switch shape {
        case "json":
            return .text(
                JSON.object([.init(name: "message", value: .string(message))]).serialized,
                status: status, type: "application/json")
        case "html":
            return .text(
                "<!doctype html><html><head><title>\(message.htmlEscaped)</title></head><body></body></html>",
                status: status, type: "text/html; charset=utf-8")
        case "text": return .text(message, status: status)
        default: return .empty(status)
        }
    }
}
