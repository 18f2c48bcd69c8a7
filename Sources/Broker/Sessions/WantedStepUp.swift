/// The demand that a session has to meet by a step-up, with properties of the session.
package struct WantedStepUp: Sendable, Equatable {
    package let demand: StepUpDemand
    /// Whether the session is a child.
    ///
    /// If so, the app has to step up the parent session and to make a new child.
    package let isOfParent: Bool
    /// Whether the session belongs to a key, which decides the challenge's scheme.
    package let isBound: Bool

    package init(demand: StepUpDemand, isOfParent: Bool = false, isBound: Bool = false) {
        self.demand = demand
        self.isOfParent = isOfParent
        self.isBound = isBound
    }
}
