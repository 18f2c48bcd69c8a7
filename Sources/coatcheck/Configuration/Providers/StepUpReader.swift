import Broker
import BrokerProviders

/// Reads what the file says of stepping up.
enum StepUpReader {
    /// Reads `step_up: {acr, max_age}` of a provider; nil goes by its kind.
    static func capability(_ section: ConfigSection, kind: ProviderKind?, preset: Preset?) -> StepUpCapability? {
        let part = section.section("step_up")
        let standard = preset?.stepUp ?? (kind == .oidc ? StepUpCapability.everything : .nothing)
        let capability = StepUpCapability(
            contextClass: part.flag("acr", default: standard.contextClass),
            maximumAge: part.flag("max_age", default: standard.maximumAge))
        // Without an id_token nobody says how the user signed in.
        if section.has("step_up"), kind != .oidc, capability != .nothing {
            section.report("step_up", "is for kind `oidc`: others say nothing of how the user signed in")
        }
        return capability
    }
}
