import Broker

/// Is the presets by name: settings over `oidc` or `oauth2` that stand for a well-known service.
enum ProviderPresetName: String, Sendable, CaseIterable {
    case google, apple, microsoft, github, slack, cloudentity

    /// The kind that the preset is made of.
    var kind: ProviderKind {
        switch self {
        case .google, .apple, .microsoft, .cloudentity: .oidc
        case .github, .slack: .oauth2
        }
    }
}
