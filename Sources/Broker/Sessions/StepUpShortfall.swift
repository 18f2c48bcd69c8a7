/// The reason why a step-up failed, with the demand and the actual sign-in.
///
/// `got` is nil if the actual sign-in is unknown, for example because the provider itself reported the failure.
package struct StepUpShortfall: Sendable, Equatable {
    package let required: StepUpDemand
    package let got: SignInFacts?
    /// Whether an upstream demands a sign-in although the session's sign-in already meets the demand.
    package var isUpstreams = false

    package init(required: StepUpDemand, got: SignInFacts?, isUpstreams: Bool = false) {
        self.isUpstreams = isUpstreams
        self.required = required
        self.got = got
    }
}
