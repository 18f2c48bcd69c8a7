// uses: BrokerHTTP/Parsing/CookieReader.swift BrokerHTTP/Parsing/Authorization.swift BrokerWire/Message/Authority.swift

private let name = "__Host-coatcheck"

/// Parses `Cookie` fields, one for each line.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    var fields: [String] = []
    while !input.isEmpty { fields.append(input.line()) }
    let found = CookieReader.value(of: name, in: fields)
    // A planted second pair, quoted or plain, counts as a second value of the name. It never replaces the first pair.
    for planted in ["planted", "\"planted\""] {
        switch (found, CookieReader.value(of: name, in: [name + "=" + planted] + fields)) {
        case (.absent, .one("planted")), (.one, .several), (.halfQuoted, .several), (.several, .several): break
        default: preconditionFailure("a planted cookie was taken, or the other one lost")
        }
    }
    guard case .one(let value) = found else { return 0 }
    precondition(!value.utf8.contains(UInt8(ascii: ";")))
    // A value in quotes is equal to the plain value, unless the value itself has a quote at one end.
    if !value.hasPrefix("\""), !value.hasSuffix("\"") {
        precondition(
            CookieReader.value(of: name, in: ["$Version=\"1\"; " + name + "=\"" + value + "\"; $Path=\"/\""]) == found)
    }
    return 0
}
