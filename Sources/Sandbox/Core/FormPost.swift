import Hummingbird

/// The `form_post` response mode (OAuth 2.0 Form Post Response Mode).
enum FormPost {
    static func answer(_ back: Pairs, to target: String, asJSON: Bool) -> Response {
        if asJSON {
            return .json([
                "action": .string(target), "body": .string(back.encoded),
                "fields": .object(back.all.map { .init(name: $0.name, value: .string($0.value)) }),
            ])
        }
        let inputs = back.all.map {
            "<input type=\"hidden\" name=\"\($0.name.htmlEscaped)\" value=\"\($0.value.htmlEscaped)\">"
        }
        return .page(
            "Continue",
            "<form method=\"post\" action=\"\(target.htmlEscaped)\">\(inputs.joined())<button>Continue</button></form>")
    }
}
