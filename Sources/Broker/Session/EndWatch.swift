/// Finds the end of sessions that somebody here listens to or follows, where nobody tells it: of those that lapse, and of those
/// whose notice was lost (guarantee 6).
package struct EndWatch: Sendable {
    /// The pause between two looks; with the look itself less than a second.
    package static let pause = Duration.milliseconds(500)
    /// The time for which a session is left alone that cannot be looked up now.
    private static let patience = Duration.seconds(2)

    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Looks up each session in the store that has lapsed by what is known of it here, and tells of those that are over.
    ///
    /// Another replica may have seen a later use. One that cannot be looked up lives (guarantee 3).
    package func look() async {
        let notices = context.notices
        for session in notices.due(at: context.lapseTime) {
            // A use that is kept while the time is doubted is in no row.
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
