/// An id_token that an app has from a native SDK, and what it is held against.
package struct HandedIDToken: Sendable {
    package let client: ClientName
    package let token: Secret
    /// The app's nonce; the token has it raw or as SHA-256.
    package let nonce: Secret
    /// The monotonic moment by which a fetch of the keys has ended.
    package let deadline: Duration?

    package init(client: ClientName, token: Secret, nonce: Secret, deadline: Duration? = nil) {
        self.client = client
        self.token = token
        self.nonce = nonce
        self.deadline = deadline
    }
}
