// uses: BrokerHTTP/Parsing/RequestForm.swift
import Broker

/// Forms and queries.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let bytes = input.bytes()
    let text = String(decoding: bytes, as: UTF8.self)
    if let pairs = try? FormPairs(parsing: text) {
        precondition((try? FormPairs(parsing: FormPairs.encode(pairs.pairs))) == pairs)
    }
    _ = try? form(bytes)
    _ = try? query(text[...])
    return 0
}

private func form(_ bytes: [UInt8]) throws {
    var form = try RequestForm(parsing: bytes)
    form.expect("grant_type", "client_credentials", required: true)
    _ = form.visible("token", required: true, maximum: 256)
    try form.finish()
}

private func query(_ text: Substring) throws {
    var query = try RequestQuery(parsing: text)
    _ = query.text("state", maximum: 512)
    try query.finish()
}
