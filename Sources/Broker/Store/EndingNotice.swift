/// A notice from other replicas about sessions that ended or changed there.
package enum EndingNotice: Sendable, Equatable {
    /// Notices of endings arrive from now on.
    case hearing
    /// Notices of endings fail to arrive, so caching must stop.
    case deaf
    case ended([EndedSession])
    /// The sessions that were stepped up without a new grant. Their token version is unchanged, so
    /// `SharedStore.tokenVersions` does not show the step-up.
    case steppedUp([Digest])
    /// The sessions that were stepped up with another grant, or got a presence key. `SharedStore.tokenVersions` shows these
    /// changes.
    case changed([Digest])
}
