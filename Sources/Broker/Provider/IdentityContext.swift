/// What an identity is checked against.
package struct IdentityContext: Sendable {
    /// What the id_token's nonce has to be.
    ///
    /// `rawOrSHA256` is for native SDKs, which may hash it (hexadecimal or base64url).
    package enum NonceExpectation: Sendable { case none, exactly(Secret), rawOrSHA256(Secret) }

    package var client: ClientName
    package var nonce: NonceExpectation
    /// The callback's further parameters; hints that a provider may confirm by a call, and nothing more (SEC-16).
    package var callback: [(name: String, value: String)]
    /// The scope that was asked for.
    package var requestedScope: [String]
    /// `max_age` in seconds, when it was asked for (SEC-30).
    package var maximumAge: Int64?
    /// The monotonic moment by which every call has ended; nil leaves only their own limits.
    package var deadline: Duration?

    package init(
        client: ClientName, nonce: NonceExpectation, callback: [(name: String, value: String)],
        requestedScope: [String], maximumAge: Int64? = nil
    ) {
        self.client = client
        self.nonce = nonce
        self.callback = callback
        self.requestedScope = requestedScope
        self.maximumAge = maximumAge
    }
}
