// android.annotation.Nullable. Kotlin refuses an unchecked use of a value with this annotation.
package android.annotation;

public @interface Nullable {}
