// uses: BrokerProviders/JOSE/CompactToken.swift BrokerProviders/JOSE/SignatureAlgorithm.swift
import Broker

/// Parses compact tokens.
///
/// The first byte chooses the form: a complete token, or header and claims as plain lines, so that the fuzzer also reaches the
/// code behind base64url.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let plain = input.byte() == UInt8(ascii: "p")
    let text: String
    if plain {
        let header = Base64URL.encode(Array(input.line().utf8))
        text = header + "." + Base64URL.encode(input.bytes()) + ".AAAA"
    } else {
        text = input.text()
        if let decoded = Base64URL.decode(text) { precondition(Base64URL.encode(decoded) == text) }
    }
    guard let token = try? CompactToken(text, allowed: [.rs256, .es256], types: ["jwt", "at+jwt"]) else { return 0 }
    precondition(token.algorithm == .rs256 || token.algorithm == .es256)
    precondition(token.header.present("crit") == nil && token.header.present("b64") == nil && !token.signature.isEmpty)
    // A text in which half a surrogate pair was replaced is never the value of a claim.
    for place in token.claims.halvedTexts.keys { precondition(token.claims.value(at: place)?.isNull ?? true) }
    precondition(text.utf8.starts(with: token.signingInput))
    return 0
}
