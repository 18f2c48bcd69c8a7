// uses: BrokerHTTP/Parsing/RequestForm.swift BrokerHTTP/Parsing/RequestQuery.swift BrokerHTTP/Parsing/RequestText.swift
import Broker

/// Parses forms and queries.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let bytes = input.bytes()
    let text = String(decoding: bytes, as: UTF8.self)
    if let pairs = try? FormPairs(parsing: text) {
        precondition((try? FormPairs(parsing: FormPairs.encode(pairs.pairs))) == pairs)
    }
    tolerant(bytes)
    _ = try? form(bytes)
    _ = try? query(text[...])
    return 0
}

private let names = FormNames(exact: ["code", "state", "token"], loose: ["message"])

/// Parses the bytes with the tolerant reader, which keeps only some names, once each.
///
/// If the strict reader accepts the form, both readers return the same values.
private func tolerant(_ bytes: [UInt8]) {
    guard let read = try? FormPairs(reading: names, of: bytes) else {
        if let strict = try? FormPairs(parsing: bytes, skipsEmpty: true) {
            preconditionFailure("a form of \(strict.pairs.count) pairs that is in order was refused")
        }
        return
    }
    let known = names.exact + names.loose
    precondition(read.pairs.allSatisfy { pair in known.contains { $0.hasBytes(of: pair.name) } })
    precondition(Set(read.pairs.map(\.name)).count == read.pairs.count && read.pairs.count <= known.count)
    if let strict = try? FormPairs(parsing: bytes, skipsEmpty: true) {
        precondition(known.allSatisfy { strict[$0] == read[$0] })
    }
    precondition((try? FormPairs(reading: names, of: Array(FormPairs.encode(read.pairs).utf8))) == read)
    var all = names
    all.othersRepeat = false
    if let whole = try? FormPairs(reading: all, of: bytes) { precondition(known.allSatisfy { whole[$0] == read[$0] }) }
}

private func form(_ bytes: [UInt8]) throws {
    _ = try? RequestForm(parsing: bytes, for: names)
    var form = try RequestForm(parsing: bytes)
    form.expect("grant_type", "client_credentials", required: true)
    _ = form.visible("token", required: true, maximum: 256)
    _ = form.optional("scope", maximum: 256)
    try form.finish()
}

private func query(_ text: Substring) throws {
    var query = try RequestQuery(parsing: text)
    _ = query.text("state", maximum: 512)
    try query.finish()
}
