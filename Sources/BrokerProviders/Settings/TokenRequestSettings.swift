/// `token_request`: the differences of token and refresh calls from RFC 6749.
package struct TokenRequestSettings: Sendable {
    /// The setting `encoding`.
    package enum Encoding: String, Sendable { case form, json }

    /// The setting `encoding`.
    package var encoding: Encoding
    /// `omit`: standard parameters that are left out.
    package var omit: Set<String>
    /// `rename`: a map from standard names to the provider's names.
    package var rename: [String: String]
    /// `parameters`: further parameters that each token and refresh call contains, in this order.
    package var parameters: [(name: String, value: String)]
    /// `headers`: further header fields on token, identity and revocation calls (`User-Agent`, `Notion-Version`).
    package var headers: [(name: String, value: String)]
    /// `idempotency_key`: whether `X-Idempotency-Key` is sent.
    ///
    /// Cloudentity uses this header field to recognise a repeated call.
    package var idempotencyKey: Bool

    package init(
        encoding: Encoding = .form, omit: Set<String> = [], rename: [String: String] = [:],
        parameters: [(name: String, value: String)] = [], headers: [(name: String, value: String)] = [],
        idempotencyKey: Bool = false
    ) {
        self.encoding = encoding
        self.omit = omit
        self.rename = rename
        self.parameters = parameters
        self.headers = headers
        self.idempotencyKey = idempotencyKey
    }
}
