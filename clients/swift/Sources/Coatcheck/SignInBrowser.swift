import Foundation

/// A browser that shows a sign-in page to the user.
///
/// Use the system's browser. The app's own web view is not safe for sign-ins.
public protocol SignInBrowser: Sendable {
    /// Opens a page and returns the whole URL of the callback to the app.
    ///
    /// Throws ``CoatcheckError/cancelled`` if the user closes the page.
    func open(_ page: URL) async throws -> URL
}
