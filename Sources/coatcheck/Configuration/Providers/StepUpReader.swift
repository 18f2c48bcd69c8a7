import Broker
import BrokerProviders
import BrokerRelay

/// Reads the settings of step-ups.
enum StepUpReader {
    /// Reads `step_up: {acr, max_age}` of a provider; the preset or the provider's kind gives the defaults.
    static func capability(_ section: ConfigSection, kind: ProviderKind?, preset: Preset?) -> StepUpCapability? {
        let part = section.section("step_up")
        let standard = preset?.stepUp ?? (kind == .oidc ? StepUpCapability.everything : .nothing)
        let capability = StepUpCapability(
            contextClass: part.flag("acr", default: standard.contextClass),
            maximumAge: part.flag("max_age", default: standard.maximumAge))
        // A step-up needs information about the sign-in, which only an id_token of kind `oidc` gives.
        if section.has("step_up"), kind != .oidc, capability != .nothing {
            section.report("step_up", "is for kind `oidc`, because other kinds give no information about the sign-in")
        }
        return capability
    }

    /// The range of the ages that may be demanded.
    ///
    /// The smallest age leaves time for the call after the sign-in.
    private static let ages = Duration.seconds(60) ... .seconds(400 * 86_400)

    /// Reads the demand in a setting `require`; nil if the demand is faulty.
    static func demand(_ section: ConfigSection, takesPresence: Bool) -> StepUpDemand? {
        let classes = section.words("acr") ?? []
        let age = section.duration("max_age", default: ages.upperBound, in: ages)
        if !takesPresence, section.has("presence"), section.flag("presence", default: false) {
            section.report(
                "presence",
                "is demanded for one request, which only a gateway knows: `/v1/forward-auth?presence=1` with "
                    + "`original_request: true`")
        }
        let presence = takesPresence && section.flag("presence", default: false)
        for scalar in section.scalars("acr") where scalar.text.contains(" ") {
            section.context.report(
                "is read as several classes, and one of them is enough; a class contains no space",
                path: section.child("acr"),
                line: scalar.line, severity: .warning)
        }
        // Refuse an empty list, because every sign-in would meet such a demand.
        if section.has("acr"), !StepUpDemand.areClasses(classes) {
            section.report(
                "acr",
                "has to be 1 to \(StepUpDemand.mostClasses) words of at most \(StepUpDemand.longestClass) characters")
            return nil
        }
        guard section.has("acr") || section.has("max_age") || presence else {
            section.report(
                nil, takesPresence ? "needs `acr`, `max_age` or `presence: true`" : "needs `acr`, `max_age` or both")
            return nil
        }
        var demand = StepUpDemand(
            contextClasses: classes, maximumAge: section.has("max_age") ? age.wholeSeconds : nil)
        demand.presence = presence
        return demand
    }

    /// Reads the entries of an upstream's `require`, with their paths in the file.
    static func requirements(_ section: ConfigSection) -> [(requirement: UpstreamRequirement, path: String)] {
        section.list("require").compactMap { item in
            let text = item.requiredText("allow", limit: 1024)
            guard let demand = demand(item, takesPresence: true), let text else { return nil }
            do throws(UpstreamFault) { return (try UpstreamRequirement(text, demand), item.path) } catch {
                item.report("allow", error.message)
                return nil
            }
        }
    }
}
