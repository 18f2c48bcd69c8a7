// swift-format-ignore-file
// LocalAuthentication framework: LAContext (localizedReason, touchIDAuthenticationAllowableReuseDuration, invalidate),
// LAError.Code, LAErrorDomain. The context is not Sendable here, as in its Objective-C declaration.
import Foundation

public class LAContext: NSObject {
    public var localizedReason = ""
    public var touchIDAuthenticationAllowableReuseDuration: TimeInterval = 0
    public func invalidate() {}
}

public let LAErrorDomain = "com.apple.LocalAuthentication"

public struct LAError: Error {
    public enum Code: Int, Sendable {
        case authenticationFailed = -1
        case userCancel = -2
        case userFallback = -3
        case systemCancel = -4
        case appCancel = -9
    }
    public let code: Code
}
