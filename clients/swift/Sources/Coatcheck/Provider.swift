/// A provider that the broker offers: what an app needs to draw its buttons.
public struct Provider: Codable, Sendable, Hashable {
    /// A registration at the provider.
    public struct Client: Codable, Sendable, Hashable {
        /// The client's name at the broker.
        public let name: String
        /// The networks through which Zephr may sign users in.
        public let socialProviders: [String]?

        enum CodingKeys: String, CodingKey { case name, socialProviders = "social_providers" }
    }

    /// The provider's name at the broker.
    public let name: String
    /// The kind that it is of; a later broker may have more.
    public let kind: String
    /// The name to write on the button.
    public let displayName: String
    /// Its registrations.
    public let clients: [Client]

    enum CodingKeys: String, CodingKey { case name, kind, clients, displayName = "display_name" }
}
