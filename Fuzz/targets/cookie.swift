// uses: BrokerHTTP/Parsing/Credentials.swift BrokerWire/Message/Authority.swift

private let name = "__Host-coatcheck"

/// Every line is a `Cookie` field.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    var fields: [String] = []
    while !input.isEmpty { fields.append(input.line()) }
    let found = CookieReader.value(of: name, in: fields)
    // A planted pair, quoted or plain, makes two values of one name. It never replaces the first pair.
    for planted in ["planted", "\"planted\""] {
        switch (found, CookieReader.value(of: name, in: [name + "=" + planted] + fields)) {
        case (.absent, .one("planted")), (.one, .several), (.halfQuoted, .several), (.several, .several): break
        default: preconditionFailure("a planted cookie was taken, or the other one lost")
        }
    }
    guard case .one(let value) = found else { return 0 }
    precondition(!value.utf8.contains(UInt8(ascii: ";")))
    // The value in quotes is the same value, if the value itself has quotes at neither end.
    if !value.hasPrefix("\""), !value.hasSuffix("\"") {
        precondition(
            CookieReader.value(of: name, in: ["$Version=\"1\"; " + name + "=\"" + value + "\"; $Path=\"/\""]) == found)
    }
    return 0
}
