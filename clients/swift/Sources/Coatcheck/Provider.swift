/// A provider that the broker offers, with the data for the app's sign-in buttons.
public struct Provider: Codable, Sendable, Hashable {
    /// A client in the broker's configuration, with its own `client_id` at the provider.
    public struct Client: Codable, Sendable, Hashable {
        /// The client's name at the broker.
        public let name: String
        /// The social networks through which Zephr may sign users in.
        public let socialProviders: [String]?

        enum CodingKeys: String, CodingKey { case name, socialProviders = "social_providers" }
    }

    /// The provider's name at the broker.
    public let name: String
    /// The kind of provider.
    ///
    /// Later brokers may have more kinds.
    public let kind: String
    /// The text for the button.
    public let displayName: String
    /// The provider's clients.
    public let clients: [Client]

    enum CodingKeys: String, CodingKey { case name, kind, clients, displayName = "display_name" }
}
