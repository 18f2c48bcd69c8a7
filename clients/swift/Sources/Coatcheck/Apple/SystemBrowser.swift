// Not compiled here: the project's tests run on Linux. Whoever builds it for iOS first, please report.
#if canImport(AuthenticationServices) && (os(iOS) || os(macOS))
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

        /// Creates a browser that comes back by a custom scheme (`com.example.app`).
        ///
        /// With `remembers: false` it shares no cookies with Safari: the user signs in anew each time, as on a shared device.
        public init(scheme: String, remembers: Bool = true) {
            callback = .scheme(scheme)
            self.remembers = remembers
        }

        /// Creates a browser that comes back by an https address of the app's associated domains.
        @available(iOS 17.4, macOS 14.4, *)
        public init(host: String, path: String, remembers: Bool = true) {
            callback = .https(host: host, path: path)
            self.remembers = remembers
        }

        /// Opens the page over the app; closes it when the caller is cancelled.
        @MainActor
        public func open(_ page: URL) async throws -> URL {
            let shown = Shown()
            return try await withTaskCancellationHandler {
                try Task.checkCancellation()
                return try await withCheckedThrowingContinuation { continuation in
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
                    // It keeps itself while it is shown; where it cannot be shown it says so to the closure above.
                    session.start()
                }
            } onCancel: {
                Task { @MainActor in shown.session?.cancel() }
            }
        }

        /// The session on the screen, for who has to close it.
        @MainActor
        private final class Shown {
            var session: ASWebAuthenticationSession?
        }

        private func session(
            _ page: URL, _ ended: @escaping ASWebAuthenticationSession.CompletionHandler
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

        /// Returns the window to show it over.
        @MainActor
        public func presentationAnchor(for session: ASWebAuthenticationSession) -> ASPresentationAnchor {
            #if os(iOS)
                let scenes = UIApplication.shared.connectedScenes.compactMap { $0 as? UIWindowScene }
                let scene = scenes.first { $0.activationState == .foregroundActive } ?? scenes.first
                return scene?.keyWindow ?? ASPresentationAnchor()
            #else
                return NSApplication.shared.keyWindow ?? ASPresentationAnchor()
            #endif
        }
    }
#endif
