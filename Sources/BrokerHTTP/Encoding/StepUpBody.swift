import Broker
import HTTPTypes

/// Writes the demand and the result of a step-up.
enum StepUpBody {
    /// Writes `required` and `got` into a problem document that the caller has opened.
    static func members(of shortfall: StepUpShortfall, into writer: inout JSONWriter) {
        writer.name("required")
        writer.object { members(of: shortfall.required, into: &$0) }
        guard let got = shortfall.got else { return }
        writer.name("got")
        writer.object { writer in
            writer.member("acr", got.contextClass)
            writer.member("authenticated_at", got.authenticatedAt.map(WallTime.init(seconds:)))
        }
    }

    /// Writes a demand in the form that `POST /v1/logins` accepts.
    static func members(of demand: StepUpDemand, into writer: inout JSONWriter) {
        if !demand.contextClasses.isEmpty {
            writer.member("acr_values", demand.contextClasses.joined(separator: " "))
        }
        if let age = demand.maximumAge { writer.member("max_age", age) }
        if demand.presence { writer.member("presence", true) }
    }

    /// The challenge of RFC 9470 section 3, with the scheme that the session uses.
    static func challenge(_ wanted: WantedStepUp) -> HTTPField {
        var text = (wanted.isBound ? "DPoP" : "Bearer") + #" error="insufficient_user_authentication""#
        // Every demand is validated on input, so its `acr` values contain no quotes or backslashes.
        if !wanted.demand.contextClasses.isEmpty {
            text += #", acr_values="\#(wanted.demand.contextClasses.joined(separator: " "))""#
        }
        if let age = wanted.demand.maximumAge { text += #", max_age="\#(age)""# }
        return HTTPField(name: .wwwAuthenticate, value: text)
    }
}
