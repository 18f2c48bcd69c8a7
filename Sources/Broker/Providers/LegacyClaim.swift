/// A question to the old system.
package struct LegacyClaim: Sendable {
    /// The name of the question, which is the same for every replica and every repetition.
    package var id: String
    package var client: ClientName
    package var token: Secret

    package init(id: String, client: ClientName, token: Secret) {
        self.id = id
        self.client = client
        self.token = token
    }
}
