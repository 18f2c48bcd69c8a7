/// The form in which an upstream expects tokens that are bound to a key (RFC 9449 section 7).
package struct ProofPresentation: Sendable, Equatable {
    /// The setting `scheme`: the word before the token in the `Authorization` field.
    package enum Scheme: String, Sendable, CaseIterable {
        case dpop = "DPoP"
        /// The scheme for servers that are older than RFC 9449.
        ///
        /// The proof is sent as well.
        case bearer = "Bearer"
    }

    package var scheme = Scheme.dpop
    /// `public_url`: the upstream's own URL, which proofs name, if it differs from `base_url`.
    package var publicBase: UpstreamBase?

    package init() {}
}
