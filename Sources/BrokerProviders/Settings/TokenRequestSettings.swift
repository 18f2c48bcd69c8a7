/// `token_request`: how token and refresh calls differ from RFC 6749's.
package struct TokenRequestSettings: Sendable {
    /// The setting `encoding`.
    package enum Encoding: String, Sendable { case form, json }

    /// The setting `encoding`.
    package var encoding: Encoding
    /// `omit`: standard parameters that are left out.
    package var omit: Set<String>
    /// `rename`: standard name to the provider's.
    package var rename: [String: String]
    /// `parameters`: further ones, sent always, in this order.
    package var parameters: [(name: String, value: String)]
    /// `headers`: further ones on token, identity and revocation calls (`User-Agent`, `Notion-Version`).
    package var headers: [(name: String, value: String)]
    /// `idempotency_key`: whether `X-Idempotency-Key` is sent, which Cloudentity answers a repeated call by.
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
