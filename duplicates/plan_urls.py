from django.urls import path

from duplicates import plan_change_views as changes
from duplicates import plan_views as views

app_name = "plans"
urlpatterns = [
    path("", views.plan_list, name="list"),
    path("live/", views.live, name="live"),
    path("new/", changes.new, name="new"),
    path("create/", changes.create, name="create"),
    path("<int:plan_id>/", views.detail, name="detail"),
    path("<int:plan_id>/csv/", views.export, name="export"),
    path("<int:plan_id>/again/", changes.again, name="again"),
    path("<int:plan_id>/discard/", changes.discard, name="discard"),
    path("<int:plan_id>/files/<int:item_id>/take-out/", changes.take_out, name="take_out"),
    path("<int:plan_id>/files/<int:item_id>/put-back/", changes.put_back, name="put_back"),
    path("<int:plan_id>/files/<int:item_id>/keep/", changes.swap_keeper, name="swap_keeper"),
    path("<int:plan_id>/folders/<int:folder_id>/take-out/", changes.take_folder_out, name="take_folder_out"),
    path("<int:plan_id>/folders/<int:folder_id>/put-back/", changes.put_folder_back, name="put_folder_back"),
]
