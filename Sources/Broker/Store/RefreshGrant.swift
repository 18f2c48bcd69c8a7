/// The terms of a granted refresh claim: its fence, and the row's refresh marks for this token version.
package struct RefreshGrant: Sendable, Equatable {
    package let fence: Int64
    /// The time since a lapsed claim of this token version was last taken over; nil if there was no take-over.
    package let takenOverFor: Duration?
    /// Whether a claim of the previous token version was taken over, so the refresh token of that version may have been sent
    /// twice.
    package let takenOverBefore: Bool
    /// Whether a refresh call for this token version was sent and its answer lost.
    package let answerLost: Bool
    /// The number of refusals for this token version that may mean a dead grant, and the time since the first.
    package let emptyRefusals: Int
    package let emptyFor: Duration

    package init(
        fence: Int64, takenOverFor: Duration? = nil, takenOverBefore: Bool = false, answerLost: Bool = false,
        emptyRefusals: Int = 0, emptyFor: Duration = .zero
    ) {
        self.fence = fence
        self.takenOverFor = takenOverFor
        self.takenOverBefore = takenOverBefore
        self.answerLost = answerLost
        self.emptyRefusals = emptyRefusals
        self.emptyFor = emptyFor
    }
}
