/// Finds sessions with subscribers or followers in this process that have ended, even if no notice of the ending arrived.
///
/// A session lapses without a notice, and the notice of another replica's ending may be lost (guarantee 6).
package struct EndWatch: Sendable {
    /// The pause between two searches for sessions that have ended.
    ///
    /// Guarantee 6 allows one second, so the pause and the next search together must be shorter.
    package static let pause = Duration.milliseconds(500)
    /// The pause after a store read that failed.
    private static let patience = Duration.seconds(2)

    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Reads from the store each session that seems to have lapsed, and announces the sessions that are over in the store
    /// too.
    ///
    /// The read is necessary because another replica may have stored a later use. If the read fails, the session counts as
    /// alive (guarantee 3).
    package func look() async {
        let notices = context.notices
        for session in notices.due(at: context.lapseTime) {
            // While the clock is in doubt, uses are kept in memory. So the row of a living session may contain an idle end that
            // has passed. Such a session is read again after `patience`.
            let patience = context.lapseTime.advanced(by: Self.patience)
            do throws(BrokerProblem) {
                let lapse = try await ResumeSession(context: context).storedLapse(of: session)
                notices.lives(session, until: lapse > context.lapseTime ? lapse : patience)
            } catch {
                switch (error.code, error.reason) {
                case (.sessionEnded, let reason?):
                    context.cache.remove([session])
                    notices.post(.ended(reason), to: session)
                case (.sessionEnded, nil), (.sessionRequired, _): notices.end(session, nil)
                default: notices.lives(session, until: patience)
                }
            }
        }
    }
}
