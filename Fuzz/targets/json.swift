// uses: BrokerHTTP/Parsing/RequestObject.swift BrokerHTTP/Parsing/RequestForm.swift BrokerHTTP/Parsing/RequestQuery.swift
// uses: BrokerHTTP/Parsing/RequestText.swift
import Broker

/// Runs the strict parser, the writer, and the reader of requests.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let bytes = input.bytes()
    _ = try? read(bytes)
    let mended = try? JSONParser.parse(bytes, maximumBytes: 65_536, mendingTexts: true)
    guard let result = try? JSONParser.parse(bytes, maximumBytes: 65_536) else { return 0 }
    // For a correct text, the parser that mends texts returns the same result.
    precondition(mended == result)
    var writer = JSONWriter()
    writer.value(result.value)
    guard let again = try? JSONParser.parse(writer.bytes, maximumBytes: .max) else {
        preconditionFailure("what was written does not parse")
    }
    precondition(again.value == result.value && again.duplicates.isEmpty)
    _ = (result.value.integer, result.value.double, result.value.object?.value(at: "/a/0/~1"))
    return 0
}

/// Reads a body as the routes do.
private func read(_ bytes: [UInt8]) throws {
    var object = try RequestObject(parsing: bytes, maximumBytes: 65_536)
    let provider: ProviderName? = object.name("provider", required: true)
    let url = object.text("callback_url", length: 1...8192, where: RequestText.isVisible)
    _ = object.opaque("code")
    _ = object.token("login_token", length: 43...128)
    let parameters = object.members("parameters", maximum: 16) { $0.string == nil ? .wrongType : nil }
    let device = object.object("device") { $0.text("name", length: 1...64) }
    try object.finish()
    precondition(provider != nil && (url ?? "-").utf8.count <= 8192 && (parameters ?? []).count <= 16)
    precondition((device ?? "-").unicodeScalars.count <= 64)
}
