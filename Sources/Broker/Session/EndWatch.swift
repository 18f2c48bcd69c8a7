/// Finds ended sessions that have listeners or followers in this process, without the notice of the ending.
///
/// Such sessions have lapsed, or their notice was lost (guarantee 6).
package struct EndWatch: Sendable {
    /// The pause between two passes.
    ///
    /// Pause and pass together take less than a second.
    package static let pause = Duration.milliseconds(500)
    /// The pause after a store read that failed.
    private static let patience = Duration.seconds(2)

    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Reads each session that has lapsed according to this process, and announces the sessions that are over.
    ///
    /// Another replica may have seen a later use. If the read fails, the session counts as alive (guarantee 3).
    package func look() async {
        let notices = context.notices
        for session in notices.due(at: context.lapseTime) {
            // Uses are kept in memory while the clock is in doubt. So the row of a living session may contain a time that has
            // passed.
            let patience = context.lapseTime.advanced(by: Self.patience)
            do throws(BrokerProblem) {
                let lapse = try await ResumeSession(context).storedLapse(of: session)
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
