/// The data for completing a registration at the provider.
package struct RegistrationRequest: Sendable {
    package let client: ClientName
    package let stateKey: Secret
    /// The slug and value (string, number or boolean) of each attribute, in the app's order.
    package let attributes: [(name: String, value: JSONValue)]
    /// The identifier from the callback, never from the app (docs/providers/zephr.md).
    package let identifier: String?

    package init(
        client: ClientName, stateKey: Secret, attributes: [(name: String, value: JSONValue)], identifier: String?
    ) {
        self.client = client
        self.stateKey = stateKey
        self.attributes = attributes
        self.identifier = identifier
    }
}
