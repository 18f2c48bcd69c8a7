/// Checks code verifiers (RFC 7636 section 4.1).
enum PKCE {
    /// Throws unless the verifier is 43–128 unreserved characters.
    static func checkVerifier(_ verifier: Secret) throws(BrokerProblem) {
        let bytes = verifier.bytes()
        guard (43...128).contains(bytes.count),
            bytes.allSatisfy({ byte in
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                    || [0x2D, 0x2E, 0x5F, 0x7E].contains(byte)
            })
        else { throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/code_verifier", .malformed)])) }
    }
}
