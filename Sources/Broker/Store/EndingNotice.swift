/// A notice from other replicas about sessions that ended or changed there.
package enum EndingNotice: Sendable, Equatable {
    /// Notices of endings arrive from now on.
    case hearing
    /// Notices of endings fail to arrive, so caching must stop.
    case deaf
    case ended([EndedSession])
    /// The sessions that were stepped up and keep their token version, so that `tokenVersions` shows no change.
    case steppedUp([Digest])
    /// The sessions that were stepped up with another grant, or got a presence key. `tokenVersions` shows these changes.
    case changed([Digest])
}
