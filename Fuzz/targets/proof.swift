import Broker

/// Parses the `DPoP` field of a request.
///
/// The first byte chooses the form: a complete proof, or header and claims as plain lines, so that the fuzzer also reaches the
/// code behind base64url.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let isPlain = input.byte() == UInt8(ascii: "p")
    let text: String
    if isPlain {
        let header = Base64URL.encode(Array(input.line().utf8))
        text = header + "." + Base64URL.encode(input.bytes()) + ".AAAA"
    } else {
        text = input.text()
    }
    if let address = ProofAddress(text) {
        precondition(address.path.utf8.allSatisfy { (0x21...0x7E).contains($0) })
        precondition(ProofAddress(address.origin + address.path) == address)
        _ = ProofOrigins(publicURL: "http://127.0.0.1:8080").contains(address)
    }
    guard let proof = try? DPoPProof([text]) else { return 0 }
    precondition(text.utf8.count <= DPoPProof.maximumBytes && text.isASCII)
    precondition(proof.key.canonical.hasPrefix(#"{"crv":"P-256","kty":"EC","x":""#))
    // Two `DPoP` fields are always refused.
    precondition((try? DPoPProof([text, text])) == nil)
    return 0
}
