import Foundation

/// A failure other than a refusal by the broker.
///
/// The broker's refusals are a ``Problem``.
public enum CoatcheckError: Error, Sendable, Hashable {
    /// There is no network, or the broker is unreachable.
    ///
    /// All data is kept.
    case unreachable
    /// The response is not in the broker's format, for example because a captive portal or a proxy answered.
    case notTheBroker(status: Int)
    /// The app gave this ``Coatcheck`` no browser.
    case noBrowser
    /// The user closed the sign-in page, or refused to show a face, a finger or the device's code.
    case cancelled
    /// The hosted callback contains an error.
    case loginFailed(ProblemCode)
    /// The sign-in of a step-up ended without a session.
    case noLogin
    /// The relay's path has an empty segment, `.` or `..`, or contains a query. The argument `query` is for queries.
    case badPath
    /// The session's key is gone from this device (a restored backup, a new phone).
    ///
    /// Sign in again.
    case keyLost
    /// The app gave this ``Coatcheck`` no presence key, or no key for the session itself. A presence proof needs both
    /// keys.
    case noPresenceKey
    /// The session's presence key is gone from this device, for example after a new finger was enrolled.
    ///
    /// Sign in again, and register another key.
    case presenceKeyLost
}

extension CoatcheckError: LocalizedError {
    /// A sentence for logs, and for users if the app has no better sentence.
    public var errorDescription: String? {
        switch self {
        case .unreachable: "The sign-in service cannot be reached."
        case .notTheBroker(let status): "Something else than the sign-in service answered (status \(status))."
        case .noBrowser: "There is no browser to sign in with."
        case .cancelled: "The user cancelled it."
        case .loginFailed(let code): "The sign-in failed (\(code.rawValue))."
        case .noLogin: "This is not a sign-in of this device."
        case .badPath: "The path could be read in more than one way. A query goes into the argument `query`."
        case .keyLost: "This device has to be signed in again: its key is gone."
        case .noPresenceKey: "There is no key that asks for the user."
        case .presenceKeyLost: "This device has to be signed in again: the key that asks for the user is gone."
        }
    }
}
