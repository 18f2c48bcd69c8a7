/// An activity that must end with its session, for example a relayed answer that is written piece by piece.
package protocol SessionFollower: AnyObject, Sendable {
    /// Called when the session has ended or no longer exists; from any thread, and possibly more than once.
    func sessionEnded(_ reason: EndReason?)
}
