/// One attribute that a partial registration needs.
package struct RegistrationField: Sendable, Equatable {
    package enum Kind: String, Sendable { case string, number, boolean }

    /// The schema slug (`first-name`).
    package let name: String
    package let type: Kind
    package let required: Bool

    /// Returns whether a value is of the field's type.
    package func accepts(_ value: JSONValue) -> Bool {
        switch (type, value) {
        case (.string, .string), (.number, .number), (.boolean, .bool): true
        default: false
        }
    }

    package init(name: String, type: Kind, required: Bool) {
        self.name = name
        self.type = type
        self.required = required
    }
}

/// The data for completing a registration at the provider.
package struct RegistrationRequest: Sendable {
    package let client: ClientName
    package let stateKey: Secret
    /// Slug and value (string, number or boolean), in the app's order.
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

/// The result of the register call, according to the provider's status map.
package enum RegistrationOutcome: Sendable {
    /// The new Zephr session, and the time when its cookie ends.
    case registered(session: Secret, expiresAt: WallTime?)
    case badAttributes
    case userExists
    case emailDomainDenied
    case stateInvalid
    case rateLimited(retryAfter: Duration?)
}
