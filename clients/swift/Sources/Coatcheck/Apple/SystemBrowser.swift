// Compiled here against stubs of Apple's frameworks, but never run here. Please report the result of your first run.
#if canImport(AuthenticationServices) && !os(tvOS) && !os(watchOS) && !os(visionOS)
    import AuthenticationServices
    import Foundation

    #if canImport(UIKit)
        import UIKit
    #endif

    /// The system's sign-in browser, `ASWebAuthenticationSession`.
    public final class SystemBrowser: NSObject, SignInBrowser, ASWebAuthenticationPresentationContextProviding {
        private enum Callback {
            case scheme(String)
            case https(host: String, path: String)
        }

        private let callback: Callback
        private let remembers: Bool

        /// Creates a browser with a custom scheme (`com.example.app`) for the callback.
        ///
        /// With `remembers: false`, the browser shares no cookies with Safari. Users then sign in again each time, as shared
        /// devices require.
        public init(scheme: String, remembers: Bool = true) {
            callback = .scheme(scheme)
            self.remembers = remembers
        }

        /// Creates a browser with an https address from the app's associated domains for the callback.
        @available(iOS 17.4, macOS 14.4, *)
        public init(host: String, path: String, remembers: Bool = true) {
            callback = .https(host: host, path: path)
            self.remembers = remembers
        }

        /// Opens the page over the app.
        ///
        /// The page closes if the caller is cancelled.
        @MainActor
        public func open(_ page: URL) async throws -> URL {
            let shown = Shown()
            return try await withTaskCancellationHandler {
                try Task.checkCancellation()
                return try await withCheckedThrowingContinuation { continuation in
                    // The system may call the closure on any thread, so it is not bound to the main actor.
                    let session = session(page) { url, error in
                        if let url {
                            continuation.resume(returning: url)
                        } else if (error as? ASWebAuthenticationSessionError)?.code == .canceledLogin {
                            continuation.resume(throwing: CoatcheckError.cancelled)
                        } else {
                            continuation.resume(throwing: error ?? CoatcheckError.cancelled)
                        }
                    }
                    session.presentationContextProvider = self
                    session.prefersEphemeralWebBrowserSession = !remembers
                    shown.session = session
                    // The session retains itself while its page is visible. If the system cannot show the page, the closure
                    // above receives the error.
                    session.start()
                }
            } onCancel: {
                Task { @MainActor in shown.session?.cancel() }
            }
        }

        /// The visible session, which has to be closed after a cancellation.
        @MainActor
        private final class Shown {
            var session: ASWebAuthenticationSession?
        }

        private func session(
            _ page: URL, _ ended: @escaping @Sendable (URL?, (any Error)?) -> Void
        ) -> ASWebAuthenticationSession {
            switch callback {
            case .scheme(let scheme):
                return ASWebAuthenticationSession(url: page, callbackURLScheme: scheme, completionHandler: ended)
            case .https(let host, let path):
                if #available(iOS 17.4, macOS 14.4, *) {
                    return ASWebAuthenticationSession(
                        url: page, callback: .https(host: host, path: path), completionHandler: ended)
                }
                return ASWebAuthenticationSession(url: page, callbackURLScheme: "https", completionHandler: ended)
            }
        }

        /// Returns the window that the page covers.
        @MainActor
        public func presentationAnchor(for session: ASWebAuthenticationSession) -> ASPresentationAnchor {
            #if canImport(UIKit)
                let scenes = UIApplication.shared.connectedScenes.compactMap { $0 as? UIWindowScene }
                let scene = scenes.first { $0.activationState == .foregroundActive } ?? scenes.first
                return scene?.keyWindow ?? ASPresentationAnchor()
            #else
                return NSApplication.shared.keyWindow ?? ASPresentationAnchor()
            #endif
        }
    }
#endif
