import Foundation

/// A failure outside the broker's own refusals, which are ``Problem``.
public enum CoatcheckError: Error, Sendable, Hashable {
    /// There is no network, or nobody answers; nothing is lost.
    case unreachable
    /// The answer is not the broker's: a captive portal, a proxy's page.
    case notTheBroker(status: Int)
    /// No browser was given to this ``Coatcheck``.
    case noBrowser
    /// The user closed the sign-in page, or would not show a face, a finger or the device's code.
    case cancelled
    /// The hosted callback came back with an error.
    case loginFailed(ProblemCode)
    /// This callback is not of a login of this device.
    case noLogin
    /// The relay's path has segments that could be read in more than one way.
    case badPath
    /// The key that the session belongs to is not on this device any more (a restored back-up, a new phone): sign in again.
    case keyLost
    /// This ``Coatcheck`` was given no key that asks for the user, or none that the session belongs to beside it.
    case noPresenceKey
    /// The session's presence key is not on this device any more, as after another finger was enrolled: sign in again, and register another.
    case presenceKeyLost
}

extension CoatcheckError: LocalizedError {
    /// A sentence for logs and for users without a better one.
    public var errorDescription: String? {
        switch self {
        case .unreachable: "The sign-in service cannot be reached."
        case .notTheBroker(let status): "Something else than the sign-in service answered (status \(status))."
        case .noBrowser: "There is no browser to sign in with."
        case .cancelled: "The user cancelled it."
        case .loginFailed(let code): "The sign-in failed (\(code.rawValue))."
        case .noLogin: "This is not a sign-in of this device."
        case .badPath: "The path could be read in more than one way."
        case .keyLost: "This device has to be signed in again: its key is gone."
        case .noPresenceKey: "There is no key that asks for the user."
        case .presenceKeyLost: "This device has to be signed in again: the key that asks for the user is gone."
        }
    }
}
