/// An id_token that an app has from a native SDK, and what it is held against.
package struct HandedIDToken: Sendable {
    package let client: ClientName
    package let token: Secret
    /// The app's nonce; the token has it raw or as SHA-256.
    package let nonce: Secret

    package init(client: ClientName, token: Secret, nonce: Secret) {
        self.client = client
        self.token = token
        self.nonce = nonce
    }
}
