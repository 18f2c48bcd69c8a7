// swift-format-ignore-file
// UIKit framework: UIApplication (shared, connectedScenes), UIScene (activationState), UIWindowScene (keyWindow), UIWindow.
import Foundation

@MainActor
public class UIApplication: NSObject {
    public static var shared: UIApplication { UIApplication() }
    public var connectedScenes: Set<UIScene> { [] }
}

@MainActor
public class UIScene: NSObject {
    public enum ActivationState: Int, Sendable {
        case unattached = -1
        case foregroundActive, foregroundInactive, background
    }
    public var activationState: ActivationState { .unattached }
}

@MainActor
public class UIWindowScene: UIScene {
    public var keyWindow: UIWindow? { nil }
}

@MainActor
public class UIWindow: NSObject {}
