// swift-format-ignore-file
// AuthenticationServices framework: ASWebAuthenticationSession (both initializers, presentationContextProvider,
// prefersEphemeralWebBrowserSession, start, cancel), its Callback.https and CompletionHandler,
// ASWebAuthenticationPresentationContextProviding, ASWebAuthenticationSessionError, ASPresentationAnchor.
import Foundation

#if canImport(UIKit)
    @_exported import UIKit
    public typealias ASPresentationAnchor = UIWindow
#else
    @_exported import AppKit
    public typealias ASPresentationAnchor = NSWindow
#endif

@MainActor
public protocol ASWebAuthenticationPresentationContextProviding: NSObjectProtocol {
    func presentationAnchor(for session: ASWebAuthenticationSession) -> ASPresentationAnchor
}

public class ASWebAuthenticationSession: NSObject {
    public typealias CompletionHandler = (URL?, (any Error)?) -> Void

    @available(iOS 17.4, macOS 14.4, *)
    public class Callback: NSObject {
        public class func https(host: String, path: String) -> Callback { Callback() }
    }

    public init(url: URL, callbackURLScheme: String?, completionHandler: @escaping CompletionHandler) {}

    @available(iOS 17.4, macOS 14.4, *)
    public init(url: URL, callback: Callback, completionHandler: @escaping CompletionHandler) {}

    public weak var presentationContextProvider: (any ASWebAuthenticationPresentationContextProviding)?
    public var prefersEphemeralWebBrowserSession = false

    @discardableResult
    public func start() -> Bool { false }
    public func cancel() {}
}

public struct ASWebAuthenticationSessionError: Error {
    public enum Code: Int, Sendable { case canceledLogin = 1 }
    public let code: Code
}
