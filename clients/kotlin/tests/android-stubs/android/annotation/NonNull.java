// android.annotation.NonNull. Kotlin treats a value with this annotation as certain.
package android.annotation;

public @interface NonNull {}
