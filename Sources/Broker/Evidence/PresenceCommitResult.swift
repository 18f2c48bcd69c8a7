/// The result of storing a presence key.
package enum PresenceCommitResult: Sendable, Equatable {
    case committed
    /// The session already has this or another presence key.
    case standing(StoredPresence)
    /// The session is missing, has ended, or is a child.
    case ended
}
