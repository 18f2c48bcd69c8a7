/// The app's next step after its post that moves a user in (docs/apps/moving-in.md).
enum MoveInStep: Sendable {
    /// The app has a session, and erases the old tokens and the mark.
    case moved
    /// The old tokens are dead, so the app erases them and lets the user sign in.
    case signIn
    /// The app removes the mark and keeps the old tokens.
    case asBefore
    /// The app keeps everything, and repeats the post.
    case later

    init(after answer: PlaygroundAnswer?) {
        switch (answer?.status, answer?.code) {
        case (201, _): self = .moved
        // After `code_already_used`, an app asks for its session. This phone lacks its cookie then, so the user signs in.
        case (409, "login_required"), (409, "code_already_used"): self = .signIn
        case (400, _), (403, _): self = .asBefore
        default: self = .later
        }
    }
}
