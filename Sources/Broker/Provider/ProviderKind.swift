/// What sort of service a provider is: the closed list that the catalogue switches over.
package enum ProviderKind: String, Sendable, CaseIterable { case oidc, oauth2, clever, clover, zephr }
