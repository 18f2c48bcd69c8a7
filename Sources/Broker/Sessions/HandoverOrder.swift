/// An app's request for a ticket, which names the page that the app's web view is to open with the session.
package struct HandoverOrder: Sendable {
    /// The origin of the page, in the form that browsers use.
    package var origin: String
    package var path: String
    /// SHA-256 of the secret that the app puts into the web view's cookie store.
    package var challenge: Digest

    package init(origin: String, path: String, challenge: Digest) {
        self.origin = origin
        self.path = path
        self.challenge = challenge
    }
}
