/// An id_token that an app got from a native SDK, with the values that the token must match.
package struct HandedIDToken: Sendable {
    package let client: ClientName
    package let token: Secret
    /// The app's nonce; the token contains the nonce itself or its SHA-256.
    package let nonce: Secret

    package init(client: ClientName, token: Secret, nonce: Secret) {
        self.client = client
        self.token = token
        self.nonce = nonce
    }
}
