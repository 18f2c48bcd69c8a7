// uses: BrokerHTTP/Parsing/Credentials.swift BrokerWire/Message/Authority.swift

private let name = "__Host-coatcheck"

/// Every line is a `Cookie` field.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    var fields: [String] = []
    while !input.isEmpty { fields.append(input.line()) }
    let found = CookieReader.value(of: name, in: fields)
    // Another planted pair makes two of one, and never takes the place of the one that was there.
    switch (found, CookieReader.value(of: name, in: [name + "=planted"] + fields)) {
    case (.absent, .one("planted")), (.one, .several), (.several, .several): break
    default: preconditionFailure("a planted cookie was taken, or the other one lost")
    }
    if case .one(let value) = found { precondition(!value.utf8.contains(UInt8(ascii: ";"))) }
    return 0
}
