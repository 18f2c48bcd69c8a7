/// The SDK that signed the user in before this app used the broker, for ``Coatcheck/moveIn(from:provider:marks:device:)``.
///
/// `docs/apps/moving-in-app.md` has an implementation for AppAuth and one for Auth0's SDK.
public protocol OldSDK: Sendable {
    /// Returns when the last refresh of the old tokens has ended.
    ///
    /// The mark already exists, so each new refresh waits. The library waits at most 30 seconds.
    func refreshEnded() async
    /// Returns the stored tokens, or nil.
    ///
    /// This method only reads the SDK's record. A refresh is forbidden here.
    func tokens() async throws -> OldTokens?
    /// Deletes the SDK's record from the device, even if it is already deleted.
    ///
    /// The SDK's revocation and its log-out are forbidden here. Either one ends the grant at the provider, and the
    /// new session ends with it.
    func erase() async throws
}

/// The tokens of the old SDK that the broker takes over.
public struct OldTokens: Sendable, Hashable {
    /// The refresh token.
    public let refreshToken: String
    /// The ID token, which the broker compares with the provider's answer; or nil.
    public let idToken: String?

    /// Creates the tokens.
    public init(refreshToken: String, idToken: String? = nil) {
        self.refreshToken = refreshToken
        self.idToken = idToken
    }
}

/// The outcome of ``Coatcheck/moveIn(from:provider:marks:device:)``.
public enum MovedIn: Sendable, Hashable {
    /// The user is signed in at the broker, and the old tokens are erased.
    ///
    /// The session is nil if the storage lacks its details.
    case moved(Session?)
    /// The user has to sign in.
    ///
    /// The problem has the reason. It is nil if an earlier run of the app received it.
    case signIn(Problem?)
    /// The move waits, for example for the network. The old tokens and the mark stay.
    ///
    /// Call ``Coatcheck/resumeMoveIn(from:provider:marks:device:)`` at the next start of the app, or sooner. The problem is
    /// nil after a missing answer.
    case later(Problem?)
    /// The app goes on with its old SDK, or with the session that it already has.
    ///
    /// The mark is gone. Try again at the next start of the app.
    case notNow(Reason)

    /// The reason why the app puts the move off.
    public enum Reason: Sendable, Hashable {
        /// The user is already signed in at the broker.
        case signedIn
        /// The old SDK lacks tokens.
        case noTokens
        /// A refresh of the old SDK was still in progress after 30 seconds.
        case refreshInProgress
        /// Another part of the app took the mark away.
        case markTaken
        /// The broker refused the request, for example because the move is closed (403).
        case refused(Problem)
    }
}
