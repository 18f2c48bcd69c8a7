/// The demands on a sign-in that a provider can fulfil (`providers.NAME.step_up`).
package struct StepUpCapability: Sendable, Equatable {
    /// Whether the provider honours `acr_values` and sends `acr`.
    package var contextClass: Bool
    /// Whether the provider honours `max_age` and sends `auth_time`.
    package var maximumAge: Bool

    package init(contextClass: Bool, maximumAge: Bool) {
        self.contextClass = contextClass
        self.maximumAge = maximumAge
    }

    package static let nothing = StepUpCapability(contextClass: false, maximumAge: false)
    package static let everything = StepUpCapability(contextClass: true, maximumAge: true)

    /// Returns whether the provider can fulfil a demand.
    package func canFulfil(_ demand: StepUpDemand) -> Bool {
        (demand.contextClasses.isEmpty || contextClass) && (demand.maximumAge == nil || maximumAge)
    }
}
