/// The kind of service that a provider is.
///
/// The closed list of kinds; `ProviderCatalogue` makes a client for each.
package enum ProviderKind: String, Sendable, CaseIterable { case oidc, oauth2, clever, clover, zephr }
