import Broker

/// Writes what a step-up demands, and what it came to.
enum StepUpBody {
    /// Writes `required` and `got` into a problem document that is open.
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

    /// Writes a demand in the form that `POST /v1/logins` takes it.
    static func members(of demand: StepUpDemand, into writer: inout JSONWriter) {
        if !demand.contextClasses.isEmpty {
            writer.member("acr_values", demand.contextClasses.joined(separator: " "))
        }
        if let age = demand.maximumAge { writer.member("max_age", age) }
    }
}
